// Vega-Lite specifications as drawings, by the Python package vl-convert-python in a child process. Nothing
// is fetched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "routeopd/base/fields.h"

namespace routeopd::report {

struct Drawing {
  std::string svg;      // as the renderer gave it; empty: none
  std::string png;      // bytes, where they were asked for
  std::string trouble;  // why there is none, a sentence
};

// The interpreter that is asked: the environment's ROUTEOPD_CHART_PYTHON, else the one this program was built
// with.
std::string chart_python();

// One drawing per specification. Does not throw for a renderer that is missing or fails: `trouble` says why.
std::vector<Drawing> render_charts(std::span<const Json> charts, bool png);

}  // namespace routeopd::report
