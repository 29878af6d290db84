package tenure

import (
	"syscall"
	"time"
	"unsafe"
)

const clockBootTime = 7

// bootTime also counts while the machine is suspended, and cannot be set.
func bootTime() time.Duration {
	var ts syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBootTime, uintptr(unsafe.Pointer(&ts)), 0)
	if failed != 0 {
		return time.Since(started)
	}
	return time.Duration(ts.Nano())
}
