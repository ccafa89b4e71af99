"""A Ray cluster of three nodes on this machine, until its input ends; prints its address and its head."""

from __future__ import annotations

import json
import os
import sys

NODES = 3


def main() -> None:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "num_gpus": 1, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(NODES - 1):
        cluster.add_node(num_cpus=1, num_gpus=1)
    gcs = cluster.head_node.all_processes["gcs_server"][0].process.pid
    sys.stdout.write(json.dumps({"address": cluster.address, "gcs": gcs}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
