"""ONNX files: ``load_onnx`` and ``save_onnx``."""
