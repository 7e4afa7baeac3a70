// SPDX-License-Identifier: Apache-2.0
#include "collect/intake.h"

#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

#include "core/log.h"

namespace vetta::collect {
namespace {

using sys::EventLoop;

constexpr Duration hello_wait_max = std::chrono::seconds(2);
/// Connections let in before others have their turn.
constexpr int accepts_a_round = 32;
constexpr Duration accept_pause = std::chrono::seconds(1);

/// Whose word is the site's, and who could stop this agent anyway.
bool is_trusted_uid(std::uint32_t uid) {
  return uid == 0 || uid == ::geteuid();
}

}  // namespace

Result<std::unique_ptr<Intake>> Intake::open(const std::string& folder, Parts parts) {
  auto tasks = VETTA_TRY(sys::DatagramSocket::bind(folder + "/agent.sock", 0600));
  auto probes = VETTA_TRY(sys::PacketListener::bind(folder + "/probe.sock", 0666));
  std::unique_ptr<Intake> intake(new Intake(std::move(parts), std::move(tasks), std::move(probes)));
  Intake* raw = intake.get();
  VETTA_TRY(raw->parts_.loop.watch(raw->tasks_.fd(), EventLoop::readable,
                                   [raw](std::uint32_t) { raw->read_tasks(); }));
  VETTA_TRY(raw->listen_probes());
  return intake;
}

Intake::~Intake() {
  while (!open_.empty()) drop_probe(open_.begin()->first);
  parts_.loop.cancel(pause_timer_);
  parts_.loop.unwatch(tasks_.fd());
  parts_.loop.unwatch(probes_.fd());
}

void Intake::read_tasks() {
  for (int i = 0; i < 1024; ++i) {
    const auto datagram = tasks_.receive(registration_bytes_max);
    if (!datagram) return log::warn("registration_unread", datagram.error().text());
    if (!datagram->has_value()) return;
    take_task(**datagram);
  }
}

void Intake::take_task(const sys::Datagram& datagram) {
  if (!datagram.peer || !is_trusted_uid(datagram.peer->uid)) {
    const std::string uid = datagram.peer ? std::to_string(datagram.peer->uid) : "?";
    return log::warn("registration_refused", "a registration that is not the plugin's",
                     {{"uid", uid}});
  }
  const auto registration = datagram.is_cut
                                ? fail(Code::invalid, "a registration of more than 4,096 bytes")
                                : parse_registration(datagram.bytes);
  if (!registration) return log::warn("registration_refused", registration.error().text());
  if (!parts_.ranks.may_take(*registration)) return;
  const RankState& state = parts_.ranks.take(*registration);
  log::debug("task", registration->is_exit ? "a task ended" : "a task began",
             {{"job", std::to_string(state.rank.job_id)},
              {"step", state.rank.step_id},
              {"task", std::to_string(state.rank.task)}});
  parts_.changed(registration->is_exit ? "exit" : "start");
}

Result<void> Intake::listen_probes() {
  return parts_.loop.watch(probes_.fd(), EventLoop::readable,
                           [this](std::uint32_t) { accept_probes(); });
}

void Intake::accept_probes() {
  for (int i = 0; i < accepts_a_round; ++i) {
    auto probe = probes_.accept();
    if (!probe) return pause_accepting(probe.error());
    if (!probe->has_value()) return;
    take_probe(std::move(**probe));
  }
}

void Intake::pause_accepting(const Error& why) {
  log::warn("probe_refused", why.text());
  parts_.loop.unwatch(probes_.fd());
  pause_timer_ = parts_.loop.after(accept_pause, [this] {
    pause_timer_ = 0;
    if (const auto listens = listen_probes(); !listens) pause_accepting(listens.error());
  });
}

Result<void> Intake::check_room_for_probe(const sys::PeerCredentials& peer) const {
  if (open_.size() >= parts_.limits.probes)
    return fail(Code::exhausted, fmt::format("{} connections wait already", open_.size()));
  const auto of_user = static_cast<std::size_t>(std::ranges::count_if(
      open_, [&peer](const auto& each) { return each.second.peer.uid == peer.uid; }));
  if (!is_trusted_uid(peer.uid) && of_user >= parts_.limits.probes_a_user)
    return fail(Code::exhausted,
                fmt::format("user {} has {} connections that say nothing", peer.uid, of_user));
  return {};
}

void Intake::take_probe(sys::PacketSocket socket) {
  const auto peer = socket.peer();
  if (!peer) return;
  // Closed at once: it tries again later.
  if (const auto room = check_room_for_probe(*peer); !room)
    return log::warn("probe_refused", room.error().text());
  const int fd = socket.fd();
  const auto timer = parts_.loop.after(hello_wait_max, [this, fd] { drop_probe(fd); });
  open_.emplace(fd, Probe{std::move(socket), *peer, timer});
  read_probe(fd);  // most have said hello already, and wait for no turn
  if (!open_.contains(fd)) return;
  const auto watched =
      parts_.loop.watch(fd, EventLoop::readable, [this, fd](std::uint32_t) { read_probe(fd); });
  if (!watched) drop_probe(fd);
}

void Intake::drop_probe(int fd) {
  const auto it = open_.find(fd);
  if (it == open_.end()) return;
  parts_.loop.cancel(it->second.timer);
  parts_.loop.unwatch(fd);
  open_.erase(it);
}

void Intake::read_probe(int fd) {
  const auto it = open_.find(fd);
  if (it == open_.end()) return;
  sys::PacketSocket& socket = it->second.socket;
  const auto hello = socket.receive(hello_bytes_max);
  if (hello && !hello->has_value()) return;
  const sys::PeerCredentials peer = it->second.peer;
  if (!hello || (*hello)->empty()) return drop_probe(fd);
  read_tasks();  // the start of its task may wait in the other socket
  const auto ring = ring_for(peer, **hello);
  if (ring) {
    const std::uint64_t bytes =
        sys::ring_header_bytes + sys::ring_slots_default * sys::ring_slot_bytes;
    [[maybe_unused]] const auto sent =
        socket.send(probe_reply(parts_.rings.path(ring->first), bytes), ring->second);
    parts_.changed("hello");
  } else {
    [[maybe_unused]] const auto sent = socket.send(probe_refusal(ring.error().text()));
    log::warn("probe_refused", ring.error().text(), {{"pid", std::to_string(peer.pid)}});
  }
  drop_probe(fd);
}

Result<void> Intake::check_room_for_ring(std::uint32_t uid) const {
  if (parts_.rings.size() >= parts_.limits.rings)
    return fail(Code::exhausted,
                fmt::format("this node has {} rings already", parts_.rings.size()));
  const std::size_t of_user = parts_.rings.count_of(uid);
  if (!is_trusted_uid(uid) && of_user >= parts_.limits.rings_a_user)
    return fail(Code::exhausted,
                fmt::format("user {} has {} rings on this node already", uid, of_user));
  return {};
}

Result<std::pair<std::uint64_t, int>> Intake::ring_for(const sys::PeerCredentials& peer,
                                                       std::string_view text) {
  const ProbeHello hello = VETTA_TRY(parse_probe_hello(text));
  ProcessFacts process = VETTA_TRY(parts_.discovery.facts(peer.pid));
  process.uid = peer.uid;
  RankState* owner = parts_.discovery.owner_of(peer.pid);
  if (owner == nullptr) owner = parts_.discovery.adopt(peer.pid, model::RankSource::probe);
  if (owner == nullptr)
    return fail(Code::denied,
                fmt::format("process {} belongs to no Slurm task of this node", peer.pid));
  if (owner->rank.uid != peer.uid)
    return fail(Code::denied, fmt::format("process {} of user {} is below a task of user {}",
                                          peer.pid, peer.uid, owner->rank.uid));
  VETTA_TRY(check_room_for_ring(peer.uid));
  if (!parts_.ranks.may_take(*owner, hello, process))
    return fail(Code::exhausted, fmt::format("user {} has {} ranks on this node already", peer.uid,
                                             RankTable::ranks_a_user_max));
  const std::uint64_t before = owner->rank.rank_id;
  RankState& state = parts_.ranks.take(*owner, hello, process);
  if (state.rank.rank_id != before) parts_.discovery.reassign(before);
  sys::RingHeader header;
  header.rank_id = state.rank.rank_id;
  header.pid = peer.pid;
  header.rank = state.rank.rank;
  header.local_rank = state.rank.local_rank;
  header.world_size = state.rank.world_size;
  header.start_ticks = process.start_ticks;
  header.uid = peer.uid;
  header.job_id = std::to_string(state.rank.job_id);
  header.step_id = state.rank.step_id;
  header.slurm_restart = state.rank.slurm_restart;
  header.elastic_restart = state.rank.elastic_restart;
  header.task = state.rank.task;
  return std::pair(header.rank_id, VETTA_TRY(parts_.rings.make(header)));
}

}  // namespace vetta::collect
