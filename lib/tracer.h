/* SPDX-License-Identifier: MIT */
/* <tracer/tracer.h>: typed events into shared-memory flight recorders. See libtracer(3). */
#ifndef TRACER_TRACER_H
#define TRACER_TRACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Levels: syslog(3)'s seven, then LTTng's debug scale; smaller is more severe. */
#define TRACER_EMERG	      0
#define TRACER_ALERT	      1
#define TRACER_CRIT	      2
#define TRACER_ERR	      3
#define TRACER_WARNING	      4
#define TRACER_NOTICE	      5
#define TRACER_INFO	      6
#define TRACER_DEBUG_SYSTEM   7
#define TRACER_DEBUG_PROGRAM  8
#define TRACER_DEBUG_PROCESS  9
#define TRACER_DEBUG_MODULE   10
#define TRACER_DEBUG_UNIT     11
#define TRACER_DEBUG_FUNCTION 12
#define TRACER_DEBUG_LINE     13
#define TRACER_DEBUG	      14

/* Field types, as they travel on the wire and into the trace's metadata. */
#define TRACER_TYPE_U8	   1
#define TRACER_TYPE_U16	   2
#define TRACER_TYPE_U32	   3
#define TRACER_TYPE_U64	   4
#define TRACER_TYPE_I8	   5
#define TRACER_TYPE_I16	   6
#define TRACER_TYPE_I32	   7
#define TRACER_TYPE_I64	   8
#define TRACER_TYPE_F32	   9
#define TRACER_TYPE_F64	   10
#define TRACER_TYPE_BOOL   11 /* one byte, 0 or 1 */
#define TRACER_TYPE_HEX64  12 /* eight bytes, shown in base 16 */
#define TRACER_TYPE_PTR	   13 /* eight bytes, shown in base 16 */
#define TRACER_TYPE_STR	   14 /* bytes up to and with a NUL */
#define TRACER_TYPE_BYTE   15 /* one byte, shown in base 16: elements of TRACER_BYTES */

/* Shapes: one value; an array of a fixed number; u16 number, then so many. */
#define TRACER_SHAPE_ONE   0
#define TRACER_SHAPE_FIXED 1
#define TRACER_SHAPE_VAR   2

#endif
