"""The live agent and the replay: the same stages, one time or a whole axis."""
