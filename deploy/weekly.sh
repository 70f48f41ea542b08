#!/bin/sh
# One run, with the cluster ids of the last model: weekly.sh FEDERATION MODELS [OPTION ...]
#   FEDERATION  the folder that `federation init` made
#   MODELS      a folder for the models; MODELS/latest.model is always the last one
#   OPTION      options of `fedjigsaw federation run`, such as -k 4
# Exit code: that of `federation run`. Install it as /opt/fedjigsaw/bin/fedjigsaw-weekly.
set -eu
umask 077
federation=$1
models=$2
shift 2
mkdir -p "$models"
new="$(date -u +%Y-%m-%dT%H%M%S).model"
if [ -e "$models/latest.model" ]; then
  set -- --like "$models/latest.model" "$@"
fi
fedjigsaw federation run "$federation" -o "$models/$new" "$@"
ln -s "$new" "$models/.latest.$$"
mv -f "$models/.latest.$$" "$models/latest.model"
