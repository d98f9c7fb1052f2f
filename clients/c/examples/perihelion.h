/* What five_minutes.c needs of the bundled game (examples/arcade/core/arcade.c). */
#ifndef PERIHELION_H
#define PERIHELION_H

#include <stdint.h>

void start(uint64_t seed);
int32_t tick(uint32_t buttons); /* 0: the run is over */
uint64_t state_hash(void);
void perihelion_result(int64_t *points, int64_t stats[3]); /* motes, near misses, best combo */

#endif
