#!/usr/bin/env bash
# Puts what a build folder has where PREFIX says:  PREFIX=DIR scripts/install.sh BUILD
# A relative PREFIX counts from here; DESTDIR=DIR goes before it, for those who make packages.
set -euo pipefail
build=$1
prefix=$(realpath -ms -- "${PREFIX:-/usr/local}")
root=""
if [ -n "${DESTDIR:-}" ]; then root=$(realpath -ms -- "$DESTDIR"); fi
export DESTDIR=$root

cannot() {
  echo "install: $1 cannot be written${2:+: $2}; name a folder of your own (make install PREFIX=\"\$HOME/.local\")" \
    "or install with the rights that it wants (sudo)." >&2
  exit 1
}
for folder in "$root$prefix"/{bin,lib/routeopd}; do
  why=$(mkdir -p -- "$folder" 2>&1) || cannot "$folder" "${why##*: }"
  [ -w "$folder" ] || cannot "$folder" "no permission"
done
[ -w "$root$prefix/lib" ] || cannot "$root$prefix/lib" "no permission"

if ! said=$(cmake --install "$build" --prefix "$prefix" 2>&1); then
  # CMake says where and why in some lines of its own.
  echo "install: $root$prefix could not be filled:" "$(sed -n '/CMake Error/,$p' <<<"$said" | tr -s ' \n' ' ')" >&2
  exit 1
fi
rmdir -- "$root$prefix/lib/routeopd" 2>/dev/null || true  # LibTorch was not copied
stays=$(sed -n 's/^ROUTEOPD_TORCH_STAYS[^=]*=//p' "$build/CMakeCache.txt")
if [ -n "$stays" ]; then
  echo "installed $root$prefix/bin/routeopd; it loads LibTorch with CUDA from $stays, which must stay there"
else
  size=$(du -sL --block-size=1000000 -- "$root$prefix/lib/routeopd" | cut -f 1)
  echo "installed $root$prefix/bin/routeopd, with LibTorch in $root$prefix/lib/routeopd ($size MB)"
fi
