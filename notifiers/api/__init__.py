"""Alertmanager's HTTP API, version 2, for amtool, Karma and Grafana."""
