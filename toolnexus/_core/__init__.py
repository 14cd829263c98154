"""The agent loop as a state machine without I/O: facts go in, events and commands come out.

Nothing here waits, sleeps, opens, reads a clock or rolls a die, and no code of the user is called.
The drivers in `_io` carry out what `AgentRun.next_command()` orders.
"""
