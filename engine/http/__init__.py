"""The agent's HTTP side: metrics, health and Prometheus' query API."""
