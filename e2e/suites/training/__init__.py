"""Real trainings and a real inference server, in the images that this project ships."""
