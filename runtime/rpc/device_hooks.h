// What a framework has told of devices (dlaunch/rpc_devices.h), for the sources that begin remote calls.
#pragma once

namespace dlaunch::internal {

// Of this process.
int device_count();
// Whether CallerStreams ask for the streams of their threads.
void follow_streams(bool follow);

}  // namespace dlaunch::internal
