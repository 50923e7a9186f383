"""TEMPORARY stand-in until the corrections are written; replace this whole file."""


class Corrections:
    def __init__(self, home):
        self.home = home

    def ratio(self, name):
        return 1.0

    def learn(self, name, estimated, reported):
        return None
