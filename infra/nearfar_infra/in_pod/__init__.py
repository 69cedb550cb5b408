"""Programs that run inside pods, with the Python of the image and nothing else.

They are carried there in ConfigMaps; nothing here imports nearfar_infra.
"""
