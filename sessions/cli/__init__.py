"""The commands that serve a Gateway, make its keys and list its sessions."""
