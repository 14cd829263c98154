"""`python -m toolnexus demo`: one run with a real small model, shown live.

The top layer: it uses the library as any user would, and nothing in the library knows of it. `engine` is a model in
this process, `scripted` a stand-in that needs no model, `weather` the conversation, `show` the screen.
"""
