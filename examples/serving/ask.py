"""Asks a served model for the probability of each line of a CSV file, with Python's own library
alone, and prints them, one a line.

    python3 ask.py http://127.0.0.1:8080 clicks tomorrow.csv
"""
import csv
import json
import sys
import urllib.request

url, model, path = sys.argv[1:]
with open(path, newline="") as lines:
    records = [{name: text or None for name, text in record.items()} for record in csv.DictReader(lines)]

request = urllib.request.Request(
    f"{url}/v1/models/{model}:predict",
    json.dumps({"instances": records}).encode(),
    {"Content-Type": "application/json"},
)
with urllib.request.urlopen(request, timeout=30) as answer:
    answered = json.load(answer)
print(f"{answered['model']}, step {answered['step']}, {answered['version']}", file=sys.stderr)
for probability in answered["predictions"]:
    print(f"{probability:.9g}")
