"""Takes models of elsewhere into a model repository: ONNX files, and ONNX models that MLflow has kept."""
