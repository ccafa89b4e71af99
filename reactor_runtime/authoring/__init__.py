"""The classes and decorators that an author writes a model with: tracks, state, events, messages, models.

Pure code: no clock, no event loop, no sockets. Declarations are inspected once, when Python defines the class; wrong
ones raise TypeError or ValueError there. `contract.Contract` combines them for the engine.
"""
