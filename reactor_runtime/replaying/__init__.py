"""`reactor replay --serve`: a model that replays a recording, and shows the frames at the recorded pace."""
