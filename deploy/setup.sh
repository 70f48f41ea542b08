#!/bin/sh
# Make a federation of three sites on invented data, one folder per machine: setup.sh FOLDER
#   FOLDER/server/clinic       for the server; FOLDER/NAME/folder and a data file for each site
# Nothing is changed if the federation is there already.
set -eu
volumes=$1
host=${FEDERATION_HOST:-server}
port=${FEDERATION_PORT:-9092}
examples=${EXAMPLES:-/examples}
umask 077
if [ -e "$volumes/server/clinic" ]; then
  echo "The federation is there already."
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fedjigsaw federation init "$work/clinic" --sites bern,lyon,oslo --host "$host" --port "$port"
python "$examples/three_hospitals.py" "$work"
for name in bern lyon oslo; do
  mkdir -p "$volumes/$name"
  rm -rf "$volumes/$name/folder"
  mv "$work/clinic/$name" "$volumes/$name/folder"
  mv "$work/$name".* "$volumes/$name/"
done
mkdir -p "$volumes/server/models"
mv "$work/clinic" "$volumes/server/clinic" # last: its presence says that all of it is there
