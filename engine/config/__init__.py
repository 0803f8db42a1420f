"""The configuration file: model and loader with located errors."""
