// What moves at one state of an explanation, as a picture: tokens that give probability on the left, those
// that take it on the right, and a band from each to each as wide as the mass that the coupling sends there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "routeopd/types/explanation.h"

namespace routeopd::report {

// On either side, with what is left over as the last; so there are at most 36 bands.
inline constexpr std::size_t kMostFlowEnds = 6;

struct FlowEnd {
  std::string name;  // visible text, not yet escaped: `" Clearly"`, "12 others"
  double mass = 0;
};

// Ends are places in the lists of a Flow.
struct FlowBand {
  std::size_t source = 0, destination = 0;
  double mass = 0;     // M q-(source) q+(destination)
  bool drawn = false;  // whether the seed draws this pair
};

// The masses of the sources, of the destinations and of the bands each add up to M.
struct Flow {
  std::vector<FlowEnd> sources, destinations;  // most mass first; what is left over last
  std::vector<FlowBand> bands;                 // source by source
};

// Without ends where nothing is moved.
Flow flow_of(const Explanation& explanation, std::size_t place);

// An <svg> element for a page whose style has the chart colours (charts/palette.h) and kFlowStyle; empty
// where nothing is moved. Texts are escaped, and the picture says what it shows to those who cannot see it.
std::string flow_svg(const Explanation& explanation, std::size_t place);

inline constexpr std::string_view kFlowStyle = R"css(
.flow{display:block;max-width:100%;height:auto;margin:0 0 .75rem;font:12px ui-monospace,monospace}
.flow text{fill:var(--ink);white-space:pre}
.flow rect{fill:var(--faint)}
.flow path{fill-opacity:.5}
.flow .drawn{stroke:var(--ink);stroke-width:1}
.f0{fill:var(--blue)}.f1{fill:var(--vermillion)}.f2{fill:var(--green)}.f3{fill:var(--purple)}
.f4{fill:var(--amber)}.f5{fill:var(--grey)}
)css";

}  // namespace routeopd::report
