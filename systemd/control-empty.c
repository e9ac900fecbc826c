/* SPDX-License-Identifier: MIT */
/* Run by the build: writes the control page of a machine whose daemon has not run since boot (lib/abi.h)
 * to stdout. tmpfiles.d copies it to /run/tracer/control. */
#include <stdio.h>

#include "lib/abi.h"

int main(void)
{
	static struct abi_control_page page = {
		.head = {
			.magic = ABI_CONTROL_MAGIC,
			.major = ABI_MAJOR,
			.minor = ABI_MINOR,
			.size = ABI_CONTROL_SIZE,
			.clock = ABI_CLOCK_NONE,
		},
	};

	if (fwrite(&page, sizeof(page), 1, stdout) != 1 || fflush(stdout) != 0) {
		perror("control-empty");
		return 1;
	}
	return 0;
}
