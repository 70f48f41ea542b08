#!/bin/sh
# One run, with the cluster ids of the last model: weekly.sh FEDERATION MODELS [OPTION ...]
#   FEDERATION  the folder that `federation init` made
#   MODELS      a folder for the models; MODELS/latest.model is always the last one
#   OPTION      options of `fedjigsaw federation run`, such as -k 4
# Exit code: that of `federation run`, 11 if a site is unlike all others; 10 if a model was made and
# clusters came or went, or its drift is above DRIFT_ALARM (2).
# Install it as /opt/fedjigsaw/bin/fedjigsaw-weekly.
set -eu
umask 077
federation=$1
models=$2
shift 2
mkdir -p "$models"
new="$(date -u +%Y-%m-%dT%H%M%S).model"
old=
if [ -e "$models/latest.model" ]; then
  old="$models/$(readlink "$models/latest.model")" # not the link: a model has a file beside it
  set -- --like "$old" "$@"
fi
code=0
fedjigsaw federation run "$federation" -o "$models/$new" "$@" || code=$?
if [ "$code" -ne 0 ] && { [ "$code" -ne 11 ] || [ ! -e "$models/$new" ]; }; then
  exit "$code"
fi
ln -s "$new" "$models/.latest.$$"
mv -f "$models/.latest.$$" "$models/latest.model"
if [ -n "$old" ]; then
  fedjigsaw diff "$old" "$models/$new" --alarm "${DRIFT_ALARM:-2}"
fi
exit "$code"
