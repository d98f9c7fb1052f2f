/* The one source file that has the client itself. */
#define SG_IMPLEMENTATION
#include "../scoregate.h"
