"""What a model's author writes: tracks, state, events, messages and the model class itself.

Everything here is pure: no clock, no event loop, no sockets. Declarations are inspected once, when Python defines the
class, and wrong ones are a TypeError or ValueError there. `contract.Contract` is the sum of it, for the engine.
"""
