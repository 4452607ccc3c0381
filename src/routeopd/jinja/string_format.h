// The two formatting languages of Python: "%d of %s" % (1, 'a') and '{:>5}'.format(x).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "routeopd/jinja/heap.h"

namespace routeopd::jinja {

// %s %r %c, %d %i %u %x %X %o, %e %E %f %F %g %G and %%, with flags, width, precision and (name).
std::string percent_format(Evaluator& evaluator, std::string_view format, const Value& values);

// str.format: {} {0} {name.attribute[key]!r:>10}; the types of numbers and texts, with fill, align, sign,
// width, grouping and precision.
std::string brace_format(Evaluator& evaluator, std::string_view format, const Arguments& arguments);

// printf of one number; `type` is one of eEfFgG.
std::string fixed(double value, char type, int precision);

}  // namespace routeopd::jinja
