"""The agent of a node: engines that are pods take turns on the device of their claim."""
