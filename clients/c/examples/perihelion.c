/* The bundled game, compiled into a program: the gateway simulates the same source again as WebAssembly. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wattributes" /* names of exports mean something to WebAssembly alone */
#else
#pragma clang diagnostic ignored "-Wignored-attributes"
#endif
#pragma GCC diagnostic ignored "-Wunused-variable"
#include "../../../examples/arcade/core/arcade.c"

#include "perihelion.h"

void perihelion_result(int64_t *points, int64_t stats[3]) {
    write_result(0);
    *points = result.score;
    for (int32_t i = 0; i < STATS; i++) stats[i] = result.stats[i];
}
