/* A picture as the model's input, by preprocess.h: Pillow's bilinear filter, to one level of 255.
   gcc -O2 -ffp-contract=off -c preprocess.c; link with -lm. */
#include <math.h>
#include <stdlib.h>
#include "preprocess.h"

/* in: lines × length pixels. out: size × lines pixels, so a second call gives rows again. weights: room for length. */
static void resize(const uint8_t *in, int lines, int length, uint8_t *out, int size, double *weights) {
    double scale = (double)length / size, support = fmax(scale, 1);
    for (int place = 0; place < size; place++) {
        double center = (place + 0.5) * scale, sum = 0;
        int first = fmax(0, center - support + 0.5), last = fmin(length, center + support + 0.5);
        for (int i = first; i < last; i++) sum += weights[i] = fmax(0, 1 - fabs((i - center + 0.5) / support));
        for (int i = first; i < last; i++) weights[i] = floor(weights[i] / sum * (1 << 22) + 0.5);
        for (int at = 0; at < lines * CHANNELS; at++) {
            const uint8_t *line = in + (size_t)(at / CHANNELS) * length * CHANNELS + at % CHANNELS;
            double total = 0.5 * (1 << 22);
            for (int i = first; i < last; i++) total += line[i * CHANNELS] * weights[i];
            out[(size_t)place * lines * CHANNELS + at] = total / (1 << 22);
        }
    }
}

/* rgb: height × width × 3. input: BATCH inputs, of which the first is written. Returns 0, or -1 without memory. */
int preprocess(const uint8_t *rgb, int width, int height, input_t *input) {
    double ratio = fmin((double)WIDTH / width, (double)HEIGHT / height);
    int wide = LETTERBOX ? fmax(1, nearbyint(width * ratio)) : WIDTH, left = (WIDTH - wide) / 2;
    int high = LETTERBOX ? fmax(1, nearbyint(height * ratio)) : HEIGHT, top = (HEIGHT - high) / 2;
    size_t longer = fmax(width, height), whole = (size_t)width * height * CHANNELS, half = (size_t)wide * height * CHANNELS;
    double *weights = malloc(sizeof(double) * longer + whole + half + (size_t)wide * high * CHANNELS);
    if (!weights) return -1;
    uint8_t *picture = (uint8_t *)(weights + longer), *turned = picture + whole, *fitted = turned + half;
    for (uint8_t *p = picture; p < turned; rgb += 3)
        for (int c = 0; c < CHANNELS; c++)
            *p++ = CHANNELS > 1 ? rgb[BGR ? 2 - c : c] : (rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16;
    resize(picture, height, width, turned, wide, weights);
    resize(turned, wide, height, fitted, high, weights);
    for (int i = 0; i < WIDTH * HEIGHT * CHANNELS; i++) {
        int c = i % CHANNELS, x = i / CHANNELS % WIDTH - left, y = i / CHANNELS / WIDTH - top;
        int is_inside = x >= 0 && x < wide && y >= 0 && y < high;
        double value = ((is_inside ? fitted[((size_t)y * wide + x) * CHANNELS + c] : PAD_VALUE) * SCALE - MEAN[c]) / STD[c];
        if (IS_INTEGER) value = rint(fmax(LOWEST, fmin(HIGHEST, value)));
        input[NHWC ? i : c * HEIGHT * WIDTH + i / CHANNELS] = value;
    }
    return free(weights), 0;
}
