"""The first space of a new installation, and what a newcomer finds in it. Made with the verbs that everybody uses."""
