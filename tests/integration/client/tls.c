/* SPDX-License-Identifier: MIT */
/* Takes static TLS away. */
static __thread char tls[256] __attribute__((tls_model("initial-exec")));

char *tls_address(void);

char *tls_address(void)
{
	return tls;
}
