/* SPDX-License-Identifier: MIT */
/* A shared library with nothing in it: what loading any library at all costs. */
int empty_call(void);
int empty_call(void)
{
	return 0;
}
