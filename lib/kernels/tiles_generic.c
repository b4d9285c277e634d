/* Weights in tiles for any processor. */
#define LANES 4
#define PROCESSOR generic
#include "tiles_impl.h"
