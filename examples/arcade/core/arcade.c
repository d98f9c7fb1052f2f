/* Perihelion, the whole game in integers: the same module plays in the browser and verifies on the server.
 *
 * A spark circles a dying star on three rings. It gathers motes, slips past falling shards, flares and waves, and is
 * over after three hits or when the star bursts, two minutes in. docs/reference/simulator-module.md describes the
 * exports; everything here is polar, so the rules need neither a square root nor a sine.
 *
 * A board may make its own course of it: parameters such as {"gap":70,"speed":130} are percentages of what is usual
 * here, which is what a board without parameters has.
 *
 * Units: an angle is 1/65536 of a turn, a length 1/256 of a pixel, time a tick of 1/60 s.
 */
#include <stdint.h>

#define EXPORT(name) __attribute__((export_name(#name))) name

enum {
    LEFT = 1, RIGHT = 2, OUTWARD = 4, INWARD = 8, NOVA = 16, ALL_BUTTONS = 31,

    TURN = 65536,
    PIXEL = 256,
    UNITS_PER_RADIAN = 10430,      /* 65536 / 2 pi */
    RADIANS_Q24 = 1608,            /* 2 pi / 65536, as a fraction of 2^24 */

    LAST_TICK = 7200,
    TICKS_PER_LEVEL = 600,
    INPUT_ROOM = 36000,
    STATS = 3,

    RINGS = 3,
    INNER_RING = 120 * PIXEL,
    RING_STEP = 70 * PIXEL,
    SPAWN_RADIUS = 400 * PIXEL,
    STAR_RADIUS = 52 * PIXEL,
    WAVE_END = 330 * PIXEL,

    THRUST = 190,
    TOP_SPEED = 1480,
    HOP_SPEED = 7 * PIXEL,

    HULL = 3,
    SHIELD_AFTER_HIT = 80,
    SHIELD_AFTER_NOVA = 30,
    HIT_REACH = 10 * PIXEL,        /* added to the size of a shard */
    GRAZE_REACH = 34 * PIXEL,      /* the same, for a near miss */
    GRAZE_WAIT = 20,
    MOTE_REACH = 27 * PIXEL,
    NOVA_REACH = 180 * PIXEL,
    NOVA_COST = 6,

    COMBO_TICKS = 150,
    COMBO_PER_STEP = 4,
    TOP_MULTIPLIER = 5,
    POINTS_MOTE = 100,
    POINTS_GRAZE = 20,
    POINTS_NOVA_SHARD = 10,
    POINTS_SECOND = 10,

    MOTES = 3,
    MOTE_LIFE = 330,
    FLARES = 3,
    FLARE_WARNING = 70,
    FLARE_BLAST = 26,
    WAVE_WARNING = 50,
    WAVE_SPEED = 2 * PIXEL,
    SHARDS = 40,

    PARAMETER_ROOM = 4096,
    USUAL = 100,                   /* percent */
    LEAST = 50,
    MOST = 200,
};

/* What a course changes, in percent: the fall of shards, the gap of waves, how often shards come, the width of flares. */
typedef struct { int32_t speed, gap, rush, flare; } Course;

typedef struct { int32_t ticks_left, angle, ring; } Mote;
typedef struct { int32_t ticks_left, angle, half_width; } Flare;           /* burns when ticks_left <= FLARE_BLAST */
typedef struct { int32_t warning, radius, gap, half_width; } Wave;         /* radius 0: no wave */
typedef struct { int32_t angle, radius, fall, drift, size, is_close; } Shard;

/* Drawing code reads this record through view(): the order is part of what players.py and arcade.js rely on. */
typedef struct {
    uint64_t random;
    int64_t score;
    int32_t tick, is_over, angle, radius;
    int32_t speed, ring, hull, shield;
    int32_t buttons, combo, combo_ticks, graze_wait;
    int32_t energy, motes_taken, near_misses, best_combo;
    int32_t shard_in, mote_in, flare_in, wave_in;
    int32_t multiplier, shard_count;
    Wave wave;
    Mote motes[MOTES];
    Flare flares[FLARES];
    Shard shards[SHARDS];
} State;

_Static_assert(sizeof(State) == 16 + 4 * (22 + 4 + 3 * MOTES + 3 * FLARES + 6 * SHARDS), "the hash must see no padding");
_Static_assert(sizeof(State) % 8 == 0, "the hash reads whole words");

typedef struct {
    uint32_t ticks_played, is_over;
    int64_t score;
    uint64_t state_hash;
    uint32_t stat_count, checkpoint_count;
    int64_t stats[STATS];
    uint64_t checkpoints[LAST_TICK];
} Result;

static union { State state; uint64_t words[sizeof(State) / 8]; } memory_of_run;
static State *const game = &memory_of_run.state;
static _Alignas(8) uint32_t input_words[INPUT_ROOM];
static _Alignas(8) Result result;
static _Alignas(8) uint8_t parameter_bytes[PARAMETER_ROOM];
static int32_t parameter_count;
static Course course = {USUAL, USUAL, USUAL, USUAL};

/* ---- numbers ---- */

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t next_random(void) {
    uint64_t z = (game->random += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static int32_t below(int32_t limit) { return (int32_t)(((next_random() >> 32) * (uint64_t)limit) >> 32); }

static int32_t between(int32_t low, int32_t high) { return low + below(high - low + 1); }

static int32_t either_side(int32_t low, int32_t high) {
    int32_t size = between(low, high);
    return below(2) ? size : -size;
}

static int32_t absolute(int32_t value) { return value < 0 ? -value : value; }

static int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }

static int32_t wrapped(int32_t angle) { return angle & (TURN - 1); }

static int32_t angle_between(int32_t a, int32_t b) { return (int32_t)(int16_t)(uint16_t)(a - b); }

static int32_t level(void) { return game->tick / TICKS_PER_LEVEL; }

static int32_t ring_radius(int32_t ring) { return INNER_RING + ring * RING_STEP; }

/* Square of the distance to the spark, measured along the arc half-way: exact enough wherever things can touch. */
static int64_t distance_squared(int32_t angle, int32_t radius) {
    int64_t across = radius - game->radius;
    int64_t middle = (radius + game->radius) / 2;
    int64_t along = (angle_between(angle, game->angle) * middle * RADIANS_Q24) >> 24;
    return across * across + along * along;
}

static int is_within(int64_t squared, int64_t reach) { return squared < reach * reach; }

static int32_t percent_of(int32_t value, int32_t percent) { return value * percent / USUAL; }

/* ---- the course ---- */

static int starts_with(int32_t at, const char *text) {
    for (; *text; at++, text++)
        if (at >= parameter_count || parameter_bytes[at] != (uint8_t)*text) return 0;
    return 1;
}

/* The whole number of a member of the object, held within its limits. Canonical JSON has no spaces, and a name with its
 * quotes and colon cannot stand in the object but as a member, unless somebody nests: then the first one counts. */
static int32_t setting(const char *member) {
    for (int32_t at = 0; at < parameter_count; at++) {
        if (!starts_with(at, member)) continue;
        while (parameter_bytes[at] != ':') at++;
        int32_t value = 0;
        while (++at < parameter_count && parameter_bytes[at] >= '0' && parameter_bytes[at] <= '9' && value < TURN)
            value = value * 10 + (parameter_bytes[at] - '0');
        return value < LEAST ? LEAST : smaller(value, MOST);
    }
    return USUAL;
}

static void read_course(void) {
    course = (Course){setting("\"speed\":"), setting("\"gap\":"), setting("\"rush\":"), setting("\"flare\":")};
}

/* 0 of the usual course, so that its hashes are those of a board without parameters. */
static uint64_t course_number(void) {
    uint64_t number = (uint64_t)(course.speed - USUAL) & 0xFFFF;
    number = number << 16 | ((uint64_t)(course.gap - USUAL) & 0xFFFF);
    number = number << 16 | ((uint64_t)(course.rush - USUAL) & 0xFFFF);
    return number << 16 | ((uint64_t)(course.flare - USUAL) & 0xFFFF);
}

/* ---- the spark ---- */

static void extend_combo(void) {
    game->combo++;
    game->combo_ticks = COMBO_TICKS;
    game->multiplier = smaller(1 + game->combo / COMBO_PER_STEP, TOP_MULTIPLIER);
    if (game->combo > game->best_combo) game->best_combo = game->combo;
}

static void drop_combo(void) {
    game->combo = 0;
    game->combo_ticks = 0;
    game->multiplier = 1;
}

static void take_hit(void) {
    if (game->shield > 0) return;
    game->hull--;
    game->shield = SHIELD_AFTER_HIT;
    drop_combo();
    if (game->hull == 0) game->is_over = 1;
}

static void steer(int32_t buttons) {
    int32_t wish = ((buttons & RIGHT) != 0) - ((buttons & LEFT) != 0);
    game->speed += wish * THRUST;
    if (wish == 0) game->speed = game->speed * 7 / 8;
    if (game->speed > TOP_SPEED) game->speed = TOP_SPEED;
    if (game->speed < -TOP_SPEED) game->speed = -TOP_SPEED;
    game->angle = wrapped(game->angle + game->speed * UNITS_PER_RADIAN / game->radius);
}

static void hop(int32_t pressed) {
    if ((pressed & OUTWARD) && game->ring < RINGS - 1) game->ring++;
    if ((pressed & INWARD) && game->ring > 0) game->ring--;
    int32_t way = ring_radius(game->ring) - game->radius;
    int32_t step = smaller(absolute(way), HOP_SPEED);
    game->radius += way < 0 ? -step : step;
}

static void remove_shard(int32_t index) {
    game->shard_count--;
    game->shards[index] = game->shards[game->shard_count];
    game->shards[game->shard_count] = (Shard){0};
}

static void burst(int32_t pressed) {
    if (!(pressed & NOVA) || game->energy < NOVA_COST) return;
    game->energy = 0;
    if (game->shield < SHIELD_AFTER_NOVA) game->shield = SHIELD_AFTER_NOVA;
    for (int32_t i = game->shard_count - 1; i >= 0; i--) {
        if (!is_within(distance_squared(game->shards[i].angle, game->shards[i].radius), NOVA_REACH)) continue;
        remove_shard(i);
        game->score += POINTS_NOVA_SHARD;
    }
}

static void run_clocks(void) {
    if (game->shield > 0) game->shield--;
    if (game->graze_wait > 0) game->graze_wait--;
    if (game->combo_ticks > 0 && --game->combo_ticks == 0) drop_combo();
    if (game->tick % 60 == 0) game->score += POINTS_SECOND;
}

/* ---- what the spark gathers and dodges ---- */

static void graze(void) {
    if (game->graze_wait > 0 || game->shield > 0) return;
    game->graze_wait = GRAZE_WAIT;
    game->near_misses++;
    extend_combo();
    game->score += POINTS_GRAZE * game->multiplier;
}

/* A near miss counts when the shard has come close and left again, so that a hit never pays. */
static int meet_shard(Shard *shard) {
    int64_t squared = distance_squared(shard->angle, shard->radius);
    int is_close = is_within(squared, GRAZE_REACH + shard->size);
    if (is_within(squared, HIT_REACH + shard->size) && game->shield == 0) {
        take_hit();
        return 1;
    }
    if (shard->is_close && !is_close) graze();
    shard->is_close = is_close;
    return shard->radius < STAR_RADIUS;
}

static void fall_shards(void) {
    for (int32_t i = game->shard_count - 1; i >= 0; i--) {
        Shard *shard = &game->shards[i];
        shard->radius -= shard->fall;
        shard->angle = wrapped(shard->angle + shard->drift);
        if (meet_shard(shard)) remove_shard(i);
    }
}

static void burn_flares(void) {
    for (int32_t i = 0; i < FLARES; i++) {
        Flare *flare = &game->flares[i];
        if (flare->ticks_left == 0) continue;
        int is_burning = --flare->ticks_left < FLARE_BLAST;
        if (is_burning && absolute(angle_between(flare->angle, game->angle)) < flare->half_width) take_hit();
        if (flare->ticks_left == 0) *flare = (Flare){0};
    }
}

static void spread_wave(void) {
    Wave *wave = &game->wave;
    if (wave->radius == 0) return;
    if (wave->warning > 0) {
        wave->warning--;
        return;
    }
    wave->radius += WAVE_SPEED;
    int is_here = absolute(wave->radius - game->radius) < HIT_REACH;
    if (is_here && absolute(angle_between(wave->gap, game->angle)) > wave->half_width) take_hit();
    if (wave->radius > WAVE_END) *wave = (Wave){0};
}

static void gather_motes(void) {
    for (int32_t i = 0; i < MOTES; i++) {
        Mote *mote = &game->motes[i];
        if (mote->ticks_left == 0) continue;
        mote->ticks_left--;
        if (is_within(distance_squared(mote->angle, ring_radius(mote->ring)), MOTE_REACH)) {
            mote->ticks_left = 0;
            game->motes_taken++;
            if (game->energy < NOVA_COST) game->energy++;
            extend_combo();
            game->score += POINTS_MOTE * game->multiplier;
        }
        if (mote->ticks_left == 0) *mote = (Mote){0};
    }
}

/* ---- what appears, and when ---- */

static void add_shard(int32_t target, int32_t fall, int32_t drift) {
    if (game->shard_count == SHARDS) return;
    int32_t travel = (SPAWN_RADIUS - game->radius) / fall;
    game->shards[game->shard_count++] = (Shard){
        .angle = wrapped(target - drift * travel), .radius = SPAWN_RADIUS, .fall = fall, .drift = drift,
        .size = between(10, 16) * PIXEL, .is_close = 0,
    };
}

static int32_t shard_target(int32_t kind) {
    int32_t heading = game->speed * 10;
    if (kind < 5) return game->angle + between(-2200, 2200);
    if (kind < 8) return game->angle + heading + between(-3500, 3500);
    return below(TURN);
}

static void add_fan(int32_t fall) {
    int32_t spread = between(5200, 7200);
    int32_t middle = game->angle + between(-spread / 2, spread / 2);
    for (int32_t i = -1; i <= 1; i++) add_shard(middle + i * spread, fall, 0);
}

static void send_shards(void) {
    if (--game->shard_in > 0) return;
    int32_t hard = level();
    int32_t fall = percent_of(2 * PIXEL + 130 + hard * 56 + below(160), course.speed);
    int32_t drift = hard > 0 && below(2) ? either_side(10, 40 + hard * 8) : 0;
    int32_t kind = below(12);
    if (kind == 11 && hard > 0) add_fan(fall);
    else add_shard(shard_target(kind), fall, drift);
    game->shard_in = (36 - 2 * hard + below(10)) * USUAL / course.rush;
}

static void send_mote(void) {
    if (--game->mote_in > 0) return;
    game->mote_in = between(52, 76);
    for (int32_t i = 0; i < MOTES; i++) {
        if (game->motes[i].ticks_left > 0) continue;
        game->motes[i] = (Mote){
            .ticks_left = MOTE_LIFE,
            .angle = wrapped(game->angle + either_side(5000, 24000)),
            .ring = below(RINGS),
        };
        return;
    }
}

static void send_flare(void) {
    if (--game->flare_in > 0) return;
    game->flare_in = between(150, 210) - level() * 10;
    for (int32_t i = 0; i < FLARES; i++) {
        if (game->flares[i].ticks_left > 0) continue;
        game->flares[i] = (Flare){
            .ticks_left = FLARE_WARNING + FLARE_BLAST,
            .angle = wrapped(game->angle + between(-5000, 5000)),
            .half_width = percent_of(2600 + level() * 150, course.flare),
        };
        return;
    }
}

static void send_wave(void) {
    if (--game->wave_in > 0) return;
    game->wave_in = between(420, 540) - level() * 14;
    game->wave = (Wave){
        .warning = WAVE_WARNING,
        .radius = STAR_RADIUS,
        .gap = wrapped(game->angle + either_side(6000, 15000)),
        .half_width = percent_of(6400 - level() * 260, course.gap),
    };
}

/* ---- the interface ---- */

int32_t EXPORT(abi_version)(void) { return 1; }

void EXPORT(start)(uint64_t seed) {
    for (uint32_t i = 0; i < sizeof(memory_of_run.words) / 8; i++) memory_of_run.words[i] = 0;
    read_course();
    game->random = seed;
    game->angle = TURN * 3 / 4;
    game->ring = 1;
    game->radius = ring_radius(1);
    game->hull = HULL;
    game->multiplier = 1;
    game->shard_in = 50;
    game->mote_in = 30;
    game->flare_in = 560;
    game->wave_in = 1300;
}

static void play_tick(int32_t buttons) {
    int32_t pressed = buttons & ~game->buttons;
    game->buttons = buttons;
    run_clocks();
    steer(buttons);
    hop(pressed);
    burst(pressed);
    fall_shards();
    burn_flares();
    spread_wave();
    gather_motes();
    send_shards();
    send_mote();
    send_flare();
    send_wave();
}

/* A word with a bit that is no button ends the run, so idle bits cannot be used to disguise a copied recording. */
int32_t EXPORT(tick)(uint32_t input) {
    if (game->is_over) return 0;
    game->tick++;
    if (input & ~(uint32_t)ALL_BUTTONS) game->is_over = 1;
    else play_tick((int32_t)input);
    if (game->tick == LAST_TICK) game->is_over = 1;
    return !game->is_over;
}

int64_t EXPORT(score)(void) { return game->score; }

/* Multiply and fold over every word of the state, with the finaliser of splitmix64. */
uint64_t EXPORT(state_hash)(void) {
    uint64_t hash = 0xCBF29CE484222325u ^ course_number();
    for (uint32_t i = 0; i < sizeof(memory_of_run.words) / 8; i++) {
        hash = (hash ^ memory_of_run.words[i]) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
    }
    hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9u;
    return hash ^ (hash >> 27);
}

uint32_t EXPORT(inputs)(int32_t ticks) {
    return ticks < 0 || ticks > INPUT_ROOM ? 0 : (uint32_t)(uintptr_t)input_words;
}

/* The board's parameters go here, and take effect with the next `start`. */
uint32_t EXPORT(parameters)(int32_t bytes) {
    if (bytes < 0 || bytes > PARAMETER_ROOM) return 0;
    parameter_count = bytes;
    return (uint32_t)(uintptr_t)parameter_bytes;
}

uint32_t EXPORT(view)(void) { return (uint32_t)(uintptr_t)game; }

static void write_result(uint32_t checkpoint_count) {
    result.ticks_played = (uint32_t)game->tick;
    result.is_over = (uint32_t)game->is_over;
    result.score = game->score;
    result.state_hash = state_hash();
    result.stat_count = STATS;
    result.checkpoint_count = checkpoint_count;
    result.stats[0] = game->motes_taken;
    result.stats[1] = game->near_misses;
    result.stats[2] = game->best_combo;
}

uint32_t EXPORT(simulate)(uint64_t seed, int32_t ticks, int32_t checkpoint_every) {
    if (ticks < 0 || ticks > INPUT_ROOM || checkpoint_every < 0) return 0;
    uint32_t checkpoint_count = 0;
    start(seed);
    for (int32_t i = 0; i < ticks && !game->is_over; i++) {
        tick(input_words[i]);
        if (checkpoint_every > 0 && game->tick % checkpoint_every == 0) result.checkpoints[checkpoint_count++] = state_hash();
    }
    write_result(checkpoint_count);
    return (uint32_t)(uintptr_t)&result;
}
