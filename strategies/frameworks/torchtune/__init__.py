"""torchtune: `tune run` with the recipe and config that fit the model, the nodes and the devices."""
