// SPDX-License-Identifier: Apache-2.0
// fmt's own code, compiled once: Debian ships fmt's headers and a shared library, and the node set
// must not need the latter. The instantiations are those of fmt 9.1's src/format.cc for char.
// Header-only fmt in every file costs a third of all compile time (docs/decisions/0006).
#include <fmt/format-inl.h>

#if FMT_VERSION / 10000 != 9
#error "cmake/fmt.cc instantiates what fmt 9 declares: compare it with this fmt's src/format.cc"
#endif

FMT_BEGIN_NAMESPACE

namespace detail {

template FMT_API auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;

template FMT_API locale_ref::locale_ref(const std::locale& loc);
template FMT_API auto locale_ref::get<std::locale>() const -> std::locale;

template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;

template FMT_API void buffer<char>::append(const char*, const char*);

template FMT_API void vformat_to(buffer<char>&, string_view,
                                 basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);

}  // namespace detail

FMT_END_NAMESPACE
