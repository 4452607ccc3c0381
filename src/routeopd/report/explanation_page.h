// What of the page is the same for every explanation: style, behind the common one, and script. Internal to explanation_html.cpp.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace routeopd::report {

// Without script a link to #tN shows panel N by :target, and the chosen panel, which stands last, while none is linked
// to. The script takes over with the class `scripted`.
inline constexpr std::string_view kPageStyle = R"css(
main{display:grid;gap:1.25rem;grid-template-columns:minmax(0,2fr) minmax(0,3fr);margin-top:1rem}
@media(max-width:64rem){main{grid-template-columns:minmax(0,1fr)}}
.response,.prompt{font:14px/1.9 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere}
.prompt{line-height:1.5;margin:.5rem 0}
.t{color:inherit;text-decoration:none;border-radius:2px;padding:1px 0;box-shadow:0 0 0 .5px var(--line)}
.t:hover,.t:focus-visible{outline:2px solid var(--mark);outline-offset:1px}
.t[aria-current]{outline:2px solid var(--ink);outline-offset:1px}
#numbers:checked~.response .t::after{content:attr(data-mass);font-size:.65em;vertical-align:sub;padding-left:1px}
.legend span{display:inline-block;padding:0 .4rem;margin:0 .15rem .15rem 0;border:.5px solid var(--line);border-radius:2px;font:12px/1.6 ui-monospace,monospace}
.panel{display:none}
.panel:target,.panel.chosen{display:block}
.panel:target~.chosen{display:none}
.scripted .panel,.scripted .panel:target{display:none}
.scripted .panel.open{display:block}
)css";

inline constexpr std::string_view kPageScript = R"js(
"use strict";
const tokens = [...document.querySelectorAll(".t")];
const place = link => Number(link.hash.slice(2));
function show(at, focus) {
  for (const shown of document.querySelectorAll(".panel.open")) shown.classList.remove("open");
  document.getElementById("t" + at).classList.add("open");
  for (const link of tokens) {
    const here = place(link) === at;
    link.tabIndex = here ? 0 : -1;
    if (here) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
    if (here && focus) link.focus();
  }
}
function linked() {
  const found = /^#t(\d+)$/.exec(location.hash);
  return found && Number(found[1]) < tokens.length ? Number(found[1]) : null;
}
document.body.classList.add("scripted");
show(linked() ?? Number(document.querySelector(".panel.chosen").id.slice(1)), false);
addEventListener("hashchange", () => { if (linked() !== null) show(linked(), false); });
document.addEventListener("click", event => {
  const link = event.target.closest('a[href^="#t"]');
  if (!link) return;
  event.preventDefault();
  show(place(link), link.classList.contains("t"));
  history.replaceState(null, "", link.hash);
});
document.querySelector(".response").addEventListener("keydown", event => {
  const at = tokens.indexOf(document.activeElement);
  const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tokens.length - 1}[event.key];
  if (at < 0 || to === undefined || to < 0 || to >= tokens.length) return;
  event.preventDefault();
  tokens[at].tabIndex = -1;
  tokens[to].tabIndex = 0;
  tokens[to].focus();
});
)js";

}  // namespace routeopd::report
