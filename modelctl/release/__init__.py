"""Make releases of models, and take them through their life: publish, verify, pin, promote, roll back, retire."""
