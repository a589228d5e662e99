// DLAUNCH_EXPORT marks what libdlaunch.so promises to the outside; all other symbols of it are hidden.
#pragma once

#define DLAUNCH_EXPORT __attribute__((visibility("default")))
