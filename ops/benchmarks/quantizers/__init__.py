"""`ops/bench quality`: our quantization beside other tools', on real models and pictures that none of them has seen."""
