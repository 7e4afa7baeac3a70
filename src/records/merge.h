// SPDX-License-Identifier: Apache-2.0
// How two views of one attempt become one. Pure.
//
// What is told of the state (state, reason, start, end, exits, dependency, prediction) comes as a
// whole from the view with the better standing: an ended one before one that goes on; among ended
// ones accounting before the controller before an inference; then the later. What describes the
// attempt comes from the controller before accounting, then from the later. A value that is missing
// in the better view is filled from the other. Suspended spans are united.
// The result does not depend on the order in which views come, provided that what once was known
// does not become unknown in a later view of the same source.
#pragma once

#include "records/types.h"

namespace vetta::records {

struct Told {
  model::Attempt attempt;
  ViewSource source = ViewSource::controller;  ///< of the state
  Time as_of;
  ViewSource described_by = ViewSource::controller;
  Time described_at;
};

/// `is_stale`: a newer snapshot of the controller is kept already, so this view may complete, but
/// not correct what is not final.
[[nodiscard]] Told merge(const Told& have, const Told& view, bool is_stale = false);

/// The view of one source at one time.
[[nodiscard]] Told told(const model::Attempt& attempt, ViewSource source, Time as_of);

/// What to keep of the first view of an attempt.
[[nodiscard]] Told first(Told view);

/// Of two attempts under one job id, whether the later is a requeue of the earlier one (and not a
/// new job whose id came round again).
[[nodiscard]] bool continues(const model::Attempt& earlier, const model::Attempt& later);

}  // namespace vetta::records
