#!/bin/sh
# From a log of clicks to predictions over HTTP, in an empty directory:
#
#   train ─▶ export ─▶ verify ─▶ safetensors ─▶ import ─▶ serve ─▶ Python and curl
#
#   mkdir try && cd try && sh ../examples/serving/serve.sh
#
# OSIRIS is the command if it is not `osiris`, such as OSIRIS='node dist/cli/main.js' in a clone.
# Needs python3 and curl.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
osiris=${OSIRIS:-osiris}

# Generates a log of clicks. Every third user likes every second article.
awk 'BEGIN {
  seed = 7
  print "clicked,user,article,price"
  for (line = 0; line < 4000; line++) {
    seed = seed * 16807 % 2147483647; user = seed % 300
    seed = seed * 16807 % 2147483647; article = seed % 100
    seed = seed * 16807 % 2147483647; draw = seed % 100
    likes = user % 3 == 0 && article % 2 == 0
    print (draw < (likes ? 80 : 10)) ",u" user ",a" article "," (line % 9 ? line % 50 + 0.25 : "")
  }
}' >clicks.csv
printf 'user,article,price\nu3,a2,4.25\nu3,a3,4.25\nu4,a2,\nu0,a98,12\nstranger,a1,1\n' >tomorrow.csv

$osiris train "$here/job.yaml" --devices 2 | grep -E 'AUC|Digest'

# Exports the model to one file and verifies it, and converts it to safetensors and back to a
# checkpoint.
$osiris export checkpoints --to model.osiris
$osiris verify model.osiris
$osiris export model.osiris --to model.safetensors
$osiris import model.safetensors --out imported
$osiris predict model.osiris --data tomorrow.csv --out scored.csv
$osiris predict imported --data tomorrow.csv --out imported.csv
cmp scored.csv imported.csv

$osiris serve clicks=model.osiris imported=imported --port 0 >server.log 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null || true' EXIT
for _ in $(seq 300); do
  url=$(sed -n 's/^Serving \([^;]*\);.*/\1/p' server.log)
  [ -n "$url" ] && break
  kill -0 $server 2>/dev/null || { cat server.log >&2; exit 1; }
  sleep 0.1
done
[ -n "$url" ] || { echo "The server did not begin within 30 s:" >&2; cat server.log >&2; exit 1; }

# The predictions of the file, of Python and of curl must be the same numbers.
cut -d , -f 4 scored.csv | tail -n +2 >expected.txt
python3 "$here/ask.py" "$url" clicks tomorrow.csv >python.txt
cmp expected.txt python.txt
python3 "$here/ask.py" "$url" imported tomorrow.csv >imported.txt
cmp expected.txt imported.txt
curl -sf "$url/v1/models/clicks:predict" \
  -d '{"instances": [{"user": "u3", "article": "a2", "price": "4.25"}]}' | tee curl.json
echo
python3 -c 'import json; print("%.9g" % json.load(open("curl.json"))["predictions"][0])' >curl.txt
head -n 1 expected.txt | cmp - curl.txt
echo "The file, Python and curl agree on $(wc -l <expected.txt | tr -d ' ') predictions."
