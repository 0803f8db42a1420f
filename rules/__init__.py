"""The rule language: model, loader, PromQL parser, templates and the shipped packs."""
