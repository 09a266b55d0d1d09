#!/bin/sh
# NVIDIA's aiperf against an endpoint of this project: plain requests, then the same with a constraint, for figures that others can compare.
#
#   pip install aiperf
#   [API_KEY=...] sh loadtests/aiperf.sh http://127.0.0.1:8000 MODEL_NAME ./TOKENIZER_FOLDER
#
# TOKENIZER_FOLDER is a folder with tokenizer.json, as a relative path that begins with a dot; aiperf counts prompt tokens with it and answers with the server's count.
set -eu

url=$1 model=$2 tokenizer=$3
for kind in plain guided; do
    constraint=""
    [ "$kind" = guided ] && constraint='{"structured_outputs": {"regex": "[A-Za-z ,.]{200,2000}"}}'
    aiperf profile --model "$model" --url "$url" --endpoint-type chat --streaming --tokenizer "$tokenizer" \
        --use-server-token-count --concurrency 8 --request-count 64 --isl 128 --osl 64 \
        --artifact-dir "artifacts/aiperf-$kind" ${constraint:+--extra-inputs "$constraint"} ${API_KEY:+--api-key "$API_KEY"}
done
