// What every page of ours shares: colours of both kinds of screen, type, tables. A page adds its own rules
// after it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace routeopd::report {

// Print is always on white.
inline constexpr std::string_view kCommonStyle = R"css(
:root{color-scheme:light dark;--ground:#fff;--ink:#1a1a1a;--faint:#595959;--line:#c8c8c8;--mark:#b3003c}
@media screen and (prefers-color-scheme:dark){:root{--ground:#161616;--ink:#e8e8e8;--faint:#a8a8a8;
--line:#444;--mark:#ff8fab}}
*{box-sizing:border-box}
body{margin:0;padding:1rem;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.25rem;margin:0 0 .5rem}
h2{font-size:1.05rem;margin:0 0 .5rem}
p{margin:.25rem 0}
.faint,caption,.note{color:var(--faint)}
.scroll{overflow-x:auto;margin-bottom:1rem}
table{border-collapse:collapse;font:13px/1.45 ui-monospace,monospace}
caption{text-align:left;font:13px/1.4 system-ui,sans-serif;padding-bottom:.25rem;caption-side:top}
th,td{padding:.1rem .55rem .1rem 0;text-align:left;white-space:pre;border-bottom:1px solid var(--line)}
th{font-weight:600}
.r{text-align:right}
.note{font-size:13px;margin:.25rem 0 0}
)css";

}  // namespace routeopd::report
