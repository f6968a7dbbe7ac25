"""Bodies that attract each other: three of them on a figure eight, and a star with planets, by leapfrog."""
import numpy as np


def accelerations(pos, mass, G, softening):
    x, y, z = pos[:, 0:1], pos[:, 1:2], pos[:, 2:3]
    dx, dy, dz = x.T - x, y.T - y, z.T - z
    inv_r3 = dx**2 + dy**2 + dz**2 + softening**2
    inv_r3[inv_r3 > 0] = inv_r3[inv_r3 > 0] ** (-1.5)
    ax = G * (dx * inv_r3) @ mass
    ay = G * (dy * inv_r3) @ mass
    az = G * (dz * inv_r3) @ mass
    return np.hstack((ax, ay, az))


def energy(pos, vel, mass, G):
    kinetic = 0.5 * np.sum(mass * vel**2)
    d = np.linalg.norm(pos[:, None, :] - pos[None, :, :], axis=-1)
    i, j = np.triu_indices(len(pos), k=1)
    return kinetic - G * np.sum(mass[i, 0] * mass[j, 0] / d[i, j])


def simulate(pos, vel, mass, dt, steps, G=1.0, softening=0.0):
    vel -= np.mean(mass * vel, 0) / np.mean(mass)  # the centre of mass stands still
    acc = accelerations(pos, mass, G, softening)
    track = np.zeros((len(pos), 3, steps + 1))
    track[:, :, 0] = pos
    energies = [energy(pos, vel, mass, G)]
    for i in range(steps):
        vel += acc * dt / 2.0
        pos += vel * dt
        acc = accelerations(pos, mass, G, softening)
        vel += acc * dt / 2.0
        track[:, :, i + 1] = pos
        energies.append(energy(pos, vel, mass, G))
    return track, np.array(energies)


def figure_eight():
    p = np.array([0.97000436, -0.24308753, 0.0])
    v = np.array([0.93240737, 0.86473146, 0.0])
    return np.array([p, -p, np.zeros(3)]), np.array([v / 2, v / 2, -v]), np.ones((3, 1))


def planets(n):
    radius = 1 + np.arange(n) * 0.7
    angle = 2.4 * np.arange(n)
    pos = np.stack([radius * np.cos(angle), radius * np.sin(angle), 0.05 * radius], axis=1)
    vel = np.stack([-np.sin(angle), np.cos(angle), np.zeros(n)], axis=1) / np.sqrt(radius)[:, None]
    mass = np.concatenate([[1.0], np.full(n, 1e-3)]).reshape(-1, 1)
    return np.concatenate((np.zeros((1, 3)), pos)), np.concatenate((np.zeros((1, 3)), vel)), mass


def main(dt=0.01, steps=200, n_planets=4):
    track, energies = simulate(*figure_eight(), dt, steps)
    orbits, system = simulate(*planets(n_planets), dt, steps)
    distance = np.sqrt(((orbits[1:] - orbits[:1]) ** 2).sum(axis=1))
    print("figure eight: energy %.6f, drift %.1e" % (energies[0], abs(energies - energies[0]).max()))
    for k, d in enumerate(distance):
        print(f"planet {k + 1}: from {d.min():.3f} to {d.max():.3f} of the star")
    return {
        "track": track, "energies": energies, "orbits": orbits, "system": system, "nearest": distance.min(1),
        "angular": np.cross(track[:, :, -1], track[:, :, -1] - track[:, :, -2]).sum(axis=0),
    }


if __name__ == "__main__":
    main()
