"""Clips: files of video, animated images and folders of images, written and read with PyAV, the extra `video`."""
