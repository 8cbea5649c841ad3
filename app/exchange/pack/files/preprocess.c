/* A picture as the model's input, by preprocess.h: Pillow's bilinear filter, to one level of 255.
   gcc -O2 -ffp-contract=off -c preprocess.c; link with -lm. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include "preprocess.h"

/* One axis of `count` lines of `length` pixels, `step` apart, each pixel's channels `channel` apart. */
static void resize(const uint8_t *in, int length, uint8_t *out, int size, int lines, int line_in, int line_out,
                   int step_in, int step_out, int channels) {
    double scale = (double)length / size, support = scale > 1 ? scale : 1;
    double *weights = malloc(sizeof(double) * ((size_t)(2 * support) + 3));
    for (int place = 0; place < size; place++) {
        double center = (place + 0.5) * scale, sum = 0;
        int first = (int)(center - support + 0.5), last = (int)(center + support + 0.5);
        if (center - support + 0.5 < 0) first = 0;
        if (last > length) last = length;
        for (int i = first; i < last; i++) {
            double weight = 1 - fabs((i - center + 0.5) / support);
            sum += weights[i - first] = weight > 0 ? weight : 0;
        }
        for (int line = 0; line < lines; line++)
            for (int c = 0; c < channels; c++) {
                int64_t total = 1 << 21;
                for (int i = first; i < last; i++)
                    total += in[(size_t)line * line_in + (size_t)i * step_in + c]
                             * (int64_t)(length == size ? 1 << 22 : weights[i - first] / sum * (1 << 22) + 0.5)
                             * (length != size || i == place);
                total >>= 22;
                out[(size_t)line * line_out + (size_t)place * step_out + c] = total < 0 ? 0 : total > 255 ? 255 : total;
            }
    }
    free(weights);
}

/* rgb: height × width × 3. input: BATCH inputs, of which the first is written. Returns 0, or -1 without memory. */
int preprocess(const uint8_t *rgb, int width, int height, input_t *input) {
    int wide = WIDTH, high = HEIGHT, n = CHANNELS;
    if (LETTERBOX) {
        double ratio = fmin((double)WIDTH / width, (double)HEIGHT / height);
        wide = fmax(1, nearbyint(width * ratio)), high = fmax(1, nearbyint(height * ratio));
    }
    int left = (WIDTH - wide) / 2, top = (HEIGHT - high) / 2;
    uint8_t *picture = malloc((size_t)width * height * n), *rows = malloc((size_t)wide * height * n);
    uint8_t *fitted = malloc((size_t)wide * high * n);
    if (!picture || !rows || !fitted) return free(picture), free(rows), free(fitted), -1;
    for (size_t i = 0; i < (size_t)width * height; i++)
        for (int c = 0; c < n; c++)
            picture[i * n + c] = n == 1 ? (rgb[3 * i] * 19595 + rgb[3 * i + 1] * 38470 + rgb[3 * i + 2] * 7471 + 0x8000) >> 16
                                        : rgb[3 * i + (BGR ? 2 - c : c)];
    resize(picture, width, rows, wide, height, width * n, wide * n, n, n, n);
    resize(rows, height, fitted, high, wide, n, n, wide * n, wide * n, n);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            for (int c = 0; c < n; c++) {
                int is_inside = y >= top && y < top + high && x >= left && x < left + wide;
                double pixel = is_inside ? fitted[((size_t)(y - top) * wide + x - left) * n + c] : PAD_VALUE;
                double value = (pixel * SCALE - MEAN[c]) / STD[c];
                if (IS_INTEGER) value = rint(fmax(LOWEST, fmin(HIGHEST, value)));
                input[NHWC ? ((size_t)y * WIDTH + x) * n + c : ((size_t)c * HEIGHT + y) * WIDTH + x] = (input_t)value;
            }
    return free(picture), free(rows), free(fitted), 0;
}
