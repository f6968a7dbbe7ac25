"""Filters by Fourier transforms: hum taken out of a signal, a spectrogram, a blurred picture."""
import numpy as np


def lowpass(signal, rate, cutoff):
    spectrum = np.fft.rfft(signal)
    frequencies = np.fft.rfftfreq(len(signal), 1 / rate)
    spectrum[frequencies > cutoff] = 0
    return np.fft.irfft(spectrum, n=len(signal))


def notch(signal, rate, f0, width):
    spectrum = np.fft.fft(signal)
    f = np.fft.fftfreq(signal.size, d=1.0 / rate)
    keep = np.abs(np.abs(f) - f0) > width
    return np.real(np.fft.ifft(spectrum * keep))


def peaks(signal, rate, count):
    window = np.hanning(len(signal))
    magnitude = np.abs(np.fft.rfft(signal * window)) / window.sum() * 2
    middle = magnitude[1:-1]
    is_peak = (middle > magnitude[:-2]) & (middle > magnitude[2:])
    where = np.where(is_peak)[0] + 1
    best = where[np.argsort(magnitude[where])[::-1][:count]]
    return best * rate / len(signal), magnitude[best]


def spectrogram(signal, size, hop):
    frames = np.array([signal[i:i + size] * np.hamming(size) for i in range(0, len(signal) - size + 1, hop)])
    return 20 * np.log10(np.maximum(np.abs(np.fft.rfft(frames, axis=1)), 1e-2))


def fft_convolve(a, b):
    n = len(a) + len(b) - 1
    size = 2 ** int(np.ceil(np.log2(n)))
    return np.fft.irfft(np.fft.rfft(a, size) * np.fft.rfft(b, size), size)[:n]


def blur(image, sigma):
    u = np.fft.fftfreq(image.shape[0])[:, None]
    v = np.fft.fftfreq(image.shape[1])[None, :]
    transfer = np.exp(-2 * (np.pi * sigma) ** 2 * (u**2 + v**2))
    return np.fft.ifft2(np.fft.fft2(image) * transfer).real


def main(rate=800, seconds=1.0, size=32):
    t = np.arange(0, seconds, 1 / rate)
    clean = np.sin(2 * np.pi * 8 * t) + 0.5 * np.cos(2 * np.pi * 20 * t)
    hum = 0.8 * np.sin(2 * np.pi * 50 * t)
    hiss = 0.1 * np.sin(2 * np.pi * 300 * t + 3 * np.sin(2 * np.pi * 7 * t))
    noisy = clean + hum + hiss

    quiet = lowpass(notch(noisy, rate, 50, 2), rate, 100)
    before, after = [np.sqrt(np.mean((s - clean) ** 2)) for s in (noisy, quiet)]
    frequency, height = peaks(noisy, rate, 3)
    kernel = np.ones(9) / 9
    smooth = fft_convolve(noisy, kernel)
    agree = np.allclose(smooth, np.convolve(noisy, kernel), atol=1e-4)

    noise = np.random.standard_normal(rate)
    parseval = np.sum(np.abs(np.fft.fft(noise)) ** 2) / (rate * np.sum(noise**2))

    image = np.zeros((size, size))
    image[size // 4:size // 2, size // 3:] = 1
    soft = blur(image, 1.5)
    shifted = np.fft.fftshift(np.log1p(np.abs(np.fft.fft2(image))))
    print("error before %.3f, after %.3f; convolutions agree: %s" % (before, after, agree))
    for f, h in zip(frequency, height):
        print("a peak at %5.1f Hz, %.2f high" % (f, h))
    return {
        "quiet": quiet, "before": before, "after": after, "frequency": frequency, "height": height, "smooth": smooth,
        "agree": agree, "parseval": parseval, "spectrogram": spectrogram(noisy, 64, 32), "soft": soft, "shifted": shifted,
    }


if __name__ == "__main__":
    main()
