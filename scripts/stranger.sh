#!/usr/bin/env bash
# A stranger's first hour: Debian 12 as its installer leaves it, in a folder of its own, and only what README.md tells.
#   sudo scripts/stranger.sh FOLDER [--ccache DIR] [--bind PATH]… [--skip-demo] [--skip-test] [--skip-wheel] [--keep]
#
# FOLDER/builder: git and make are installed, the last commit of this checkout is cloned to where this checkout lies, and
# `make demo`, `make test` and `make wheel` run there. FOLDER/user has Python and no compiler: the wheel is installed, and
# docs/python.md's own check must print what the page shows. Each part's time is told at the end.
#
#   --ccache DIR   compiler cache to read and to fill, seen inside as /ccache; without it everything is compiled
#   --bind PATH    show this folder of the machine inside, at the same place; those that pip's configuration names are
#                  shown already
#   --skip-…       leave that part out
#   --keep         leave FOLDER as it is at the end, to look around in:  chroot FOLDER/builder; the next call with the same
#                  FOLDER takes the fresh system FOLDER/base from there and makes the others anew
#
# The mirror is the one in this machine's apt configuration. Needs root, debootstrap (1 GB is fetched, 10 GB are filled).
# All mounts belong to a namespace of the script's own: they and every process inside are gone when it ends, however it ends.
set -euo pipefail
fail() { echo "stranger: $*" >&2; exit 2; }

release=bookworm
folder="" ccache="" keep="" inside="" binds=() parts=(demo test wheel)
given=("$@")
skip() { local part kept=(); for part in "${parts[@]}"; do [ "$part" = "$1" ] || kept+=("$part"); done; parts=("${kept[@]}"); }
while [ $# -gt 0 ]; do
  case $1 in
    --ccache | --bind) [ -e "${2:-}" ] || fail "$1 needs a folder that is there, got '${2:-}'"
                       if [ "$1" = --ccache ]; then ccache=$(realpath "$2"); else binds+=("$(realpath "$2")"); fi
                       shift ;;
    --skip-demo | --skip-test | --skip-wheel) skip "${1#--skip-}" ;;
    --keep) keep=yes ;;
    --inside) inside=yes ;;
    -*) fail "unknown option $1; $(sed -n '3s/^# *//p' "$0")" ;;
    *) [ -z "$folder" ] || fail "one folder, got $folder and $1"; folder=$1 ;;
  esac
  shift
done
[ -n "$folder" ] || fail "a folder to make the systems in was expected; $(sed -n '3s/^# *//p' "$0")"
[ "$(id -u)" -eq 0 ] || fail "chroot and mounts need root: run it with sudo"
command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"

if [ -z "$inside" ]; then
  if [ -n "$(ls -A "$folder" 2>/dev/null)" ] && [ ! -e "$folder/base-is-whole" ]; then
    fail "$folder is not empty: name a folder that is empty, is not there, or was left by --keep"
  fi
  mkdir -p "$folder"
  rm -rf --one-file-system "${folder:?}"/{builder,user}
  tidy() { [ -n "$keep" ] || rm -rf --one-file-system "${folder:?}"/{base,base-is-whole,builder,user,debootstrap.log}; }
  unshare --mount --propagation private --pid --fork --kill-child --mount-proc "$0" "${given[@]}" --inside &
  child=$!
  trap 'kill -KILL $child 2>/dev/null; wait $child 2>/dev/null || true; tidy; exit 130' INT TERM HUP
  status=0
  wait $child || status=$?
  tidy
  exit $status
fi

folder=$(realpath "$folder")
here=$(realpath "$(dirname "$0")/..")

# Files and folders of this machine that pip's configuration names; of a package index (…/simple), the folder above.
paths_of_pip() {
  { cat /etc/pip.conf /etc/xdg/pip/pip.conf ~/.config/pip/pip.conf ~/.pip/pip.conf 2>/dev/null || true; env | grep ^PIP_ || true; } |
    tr ' =,\t' '\n' | sed -n 's#^file://##; s#/simple/*$##; \#^/#p' | sort -u | while read -r path; do
      if [ -e "$path" ]; then echo "$path"; fi
    done
}

# Of the files a copy under /machine, for packages want to write their own (certificates); folders are seen, to be read, at
# the same place.
show() {
  local root=$1 path=$2
  if [ -d "$path" ]; then
    mkdir -p "$root$path"
    mount --bind "$path" "$root$path"
    mount -o remount,bind,ro "$root$path"
  else
    mkdir -p "$root/machine$(dirname "$path")"
    cp -L "$path" "$root/machine$path"
    copied+=("$path")
  fi
}
copied=()
as_copied() {  # the text with copied files under their new names
  local text=$1 path
  for path in ${copied[@]+"${copied[@]}"}; do text=${text//"$path"//machine$path}; done
  printf '%s\n' "$text"
}

# What a container would have, and the machine's ways to packages: mirrors, pip's configuration, names.
furnish() {
  local root=$1 path
  mkdir -p "$root/proc" "$root/dev"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  copied=()
  while read -r path; do [ -z "$path" ] || show "$root" "$path"; done < <(paths_of_pip; printf '%s\n' "${binds[@]-}")
  mkdir -p "$root/root/.config/pip"
  if [ -e /etc/pip.conf ]; then as_copied "$(cat /etc/pip.conf)" > "$root/etc/pip.conf"; fi
  if [ -e ~/.config/pip/pip.conf ]; then as_copied "$(cat ~/.config/pip/pip.conf)" > "$root/root/.config/pip/pip.conf"; fi
  apt-config dump | grep -E '^Acquire::(https?::|Check-Valid-Until)' > "$root/etc/apt/apt.conf.d/90machine" || true
}

# within ROOT FOLDER COMMAND: a root shell of a fresh login; of this machine's environment only the ways to packages.
within() {
  local root=$1 at=$2 settings=() name
  while read -r name; do settings+=("$name=$(as_copied "${!name}")"); done < <(compgen -e | grep -iE '^(PIP_|TORCH_PIP_ARGS$|(https?|no)_proxy$)')
  if [ -n "$ccache" ]; then settings+=(CCACHE_DIR=/ccache); fi
  chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    TERM=dumb ${settings[@]+"${settings[@]}"} bash -euo pipefail -c "cd '$at' && $3"
}

packages() {
  local root=$1
  shift
  within "$root" / "export DEBIAN_FRONTEND=noninteractive; apt-get update -qq && apt-get install -y -qq $* > /var/log/packages.log 2>&1" ||
    { tail -n 5 "$root/var/log/packages.log" >&2; fail "$* could not be installed"; }
}

times=()
timed() {  # timed NAME COMMAND…
  local name=$1 start=$SECONDS status=passed
  shift
  echo "stranger: $name"
  ( set -e; "$@" ) &
  wait $! || status=FAILED  # in the background, so that set -e holds inside
  times+=("$(printf '%-8s %-7s %5d s' "$name" $status $((SECONDS - start)))")
  if [ $status = FAILED ]; then report; exit 1; fi
}
report() { printf 'stranger:\n'; printf '  %s\n' "${times[@]}"; }

system() {
  [ ! -e "$folder/base-is-whole" ] || return 0
  local mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
    awk -v release=$release '$2 == release && $3 == "main" { print $1; exit }')
  [ -n "$mirror" ] || fail "apt's configuration has no mirror of Debian's $release: expected one in /etc/apt/sources.list.d"
  debootstrap --variant=minbase $release "$folder/base" "$mirror" > "$folder/debootstrap.log" 2>&1 ||
    { tail -n 5 "$folder/debootstrap.log" >&2; fail "debootstrap failed; $folder/debootstrap.log says more"; }
  apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    grep -E " $release(-updates|-security)? " > "$folder/base/etc/apt/sources.list"
  touch "$folder/base-is-whole"
}

builder() {  # what README.md asks for before the clone
  packages "$folder/builder" git make
  mkdir -p "$folder/builder$here"
  git -c safe.directory='*' clone -q "file://$here" "$folder/builder$here"
  echo "stranger: commit $(git -c safe.directory='*' -C "$here" log -1 --format='%h %s')"
}

user() {
  packages "$folder/user" --no-install-recommends python3-venv
  within "$folder/user" / 'if command -v cc c++ gcc g++ clang; then echo "stranger: a compiler, where none was expected" >&2; exit 1; fi'
  mkdir -p "$folder/user/root/dist"
  cp "$folder/builder$here"/dist/routeopd-*.whl "$folder/user/root/dist/"
  within "$folder/user" /root 'python3 -m venv trainer && trainer/bin/pip install -q ${TORCH_PIP_ARGS:-} dist/routeopd-*.whl'
  # The first block of Python on the page after "Is it in order?", and the block after it: what it prints.
  local page=$folder/builder$here/docs/python.md
  block() { awk -v fence="\`\`\`$1" '/^Is it in order\?/ { seen = 1 } seen && $0 == fence { on = 1; next } on && /^```$/ { exit } on' "$page"; }
  block python > "$folder/user/root/check.py"
  block text > "$folder/user/root/expected"
  [ -s "$folder/user/root/check.py" ] && [ -s "$folder/user/root/expected" ] || fail "docs/python.md has no check after 'Is it in order?'"
  within "$folder/user" /root 'trainer/bin/python check.py > printed; diff expected printed && cat printed'
}

timed system system
cp -a "$folder/base" "$folder/builder"
furnish "$folder/builder"
if [ -n "$ccache" ]; then
  mkdir -p "$folder/builder/ccache"
  mount --bind "$ccache" "$folder/builder/ccache"
fi
timed clone builder
for part in ${parts[@]+"${parts[@]}"}; do
  timed "$part" within "$folder/builder" "$here" "make $part"
  if [ "$part" = wheel ]; then
    cp -a "$folder/base" "$folder/user"
    furnish "$folder/user"
    timed user user
  fi
done
report
