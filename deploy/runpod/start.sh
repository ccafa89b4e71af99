#!/usr/bin/env bash
# The start command of a Pod of RunPod, in the directory of the project. Expose the HTTP port 8080, and set REACTOR_TOKEN to a
# secret of the account. The page is at https://POD_ID-8080.proxy.runpod.net/?token=TOKEN.
set -euo pipefail
: "${REACTOR_TOKEN:?without a token everybody could use the model}"

# exec: the server has to get the signals of the container.
exec reactor run --host 0.0.0.0 --port 8080 --allow-host "$RUNPOD_POD_ID-8080.proxy.runpod.net" \
    --log-format json --resume-grace 30s --drain-timeout 8
